"""SQL texts as trees of sqlglot's, and the place in the text of what is wrong with them."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType
from sqlglot.tokens import Tokenizer as BaseTokenizer

from muntin.host.errors import MuntinError, PredicateError, SqlError
from muntin.host.sql.terms import Node

# Dialects: either's quotes around names.

_OURS = {"MATCH_CONDITION": TokenType.MATCH_CONDITION, "//": TokenType.DIV}
_KEYWORDS = BaseTokenizer.KEYWORDS | _OURS
_HEX: list[str | tuple[str, str]] = [("x'", "'"), ("X'", "'")]


class DuckText(DuckDB):
    """Texts whose rest DuckDB runs."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 (as sqlglot has it)
        HEX_STRINGS = _HEX
        KEYWORDS = DuckDB.Tokenizer.KEYWORDS | _OURS


class SparkText(Spark):
    """Texts whose rest Spark runs."""

    class Tokenizer(Spark.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        QUOTES = ["'"]  # noqa: RUF012
        STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012
        HEX_STRINGS = _HEX
        KEYWORDS = Spark.Tokenizer.KEYWORDS | _OURS


class ConditionText(Dialect):
    """Without joins, `left` and `right` are names."""

    class Tokenizer(BaseTokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        HEX_STRINGS = _HEX
        KEYWORDS = {name: kind for name, kind in _KEYWORDS.items() if name not in ("LEFT", "RIGHT")}  # noqa: RUF012


class Text:
    """One text, and errors that name places in it."""

    def __init__(self, text: str, dialect: Dialect | None = None):
        if not isinstance(text, str):
            raise PredicateError(f"SQL must be text, not {text!r}")
        self.text = text
        self.dialect = dialect or ConditionText()
        self.final: SqlError | None = None

    # Errors

    def refuse(self, node: Node, what: str, *, final: bool = False) -> NoReturn:
        """Raises the error of a place; of what no engine is to be asked for instead, a `final` one."""
        error = self.error(self.start(node), what)
        if final:
            self.final = error
        raise error

    def error(self, start: int, what: str) -> SqlError:
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        return SqlError(f"line {line}, column {column}: {what}", line, column)

    @contextlib.contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Gives errors the place of a node, where they have none."""
        try:
            yield
        except SqlError:
            raise
        except MuntinError as error:
            self.refuse(node, str(error))

    def start(self, node: Node) -> int:
        """Where an expression begins: of what sqlglot says of its parts, the first."""
        while node is not None:
            starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
            if starts:
                return min(starts)
            node = node.parent
        return 0

    def word(self, *words: str, after: int = 0) -> int:
        """Where the first of these keywords stands, behind a place."""
        for token in self.tokens:
            if token.start >= after and " ".join(token.text.upper().split()) in words:
                return token.start
        return after

    def place(self, names: list[str]) -> int:
        """Where the first of several names stands that the text has."""
        places = {token.text.lower(): token.start for token in reversed(self.tokens)}
        return next((places[name.lower()] for name in names if name.lower() in places), 0)

    @contextlib.contextmanager
    def shallow(self) -> Iterator[None]:
        """Refuses a text that nests deeper than the interpreter's stack goes, at its deepest place."""
        try:
            yield
        except RecursionError:
            depth = most = place = before = 0
            for token in _once_nested(self.tokens):
                word = token.text.upper()
                before = before + 1 if word in ("NOT", "-") else 0
                depth += (word in ("(", "CASE")) - (word in (")", "END"))
                if depth + before > most:
                    most, place = depth + before, token.start
            raise self.error(
                place,
                f"the text nests {most} deep here, which is more than can be read: write it with fewer levels",
            ) from None

    # The tree

    @functools.cached_property
    def tokens(self) -> list[Token]:
        return self.dialect.tokenize(self.text)

    def condition(self) -> Node:
        return self._parsed(exp.Condition)

    def statement(self) -> Node:
        """The tree of a SELECT, or of several that UNION and the like join."""
        first = self.text.split(maxsplit=1)
        if first and first[0].isalpha() and first[0].upper() not in ("SELECT", "WITH", "FROM"):
            raise self.error(self.text.index(first[0]), f"only SELECT is supported, not {first[0].upper()}")
        tree = self._parsed(None)
        if not isinstance(tree, exp.Query):
            self.refuse(tree, f"only SELECT is supported, not {type(tree).__name__.upper()}")
        return tree

    def _parsed(self, into: Any) -> Node:
        dialect = self.dialect
        try:
            tokens = _once_nested(_functions(_asof_first(self.tokens)))
            parser = dialect.parser()
            found = parser.parse(tokens, self.text) if into is None else parser.parse_into(into, tokens, self.text)
        except TokenError as error:
            place = re.fullmatch(r"(.*) from \d+:(\d+)", str(error.__cause__), re.DOTALL)
            what = f"{place[1]} at its end" if place else str(error)
            raise self.error(int(place[2]) if place else 0, what) from error
        except SqlglotError as error:
            told = getattr(error, "errors", None) or [{}]
            line, end = told[0].get("line", 1), told[0].get("col", 1)
            word = told[0].get("highlight") or ""
            start = sum(len(each) + 1 for each in self.text.split("\n")[: line - 1]) + max(0, end - max(1, len(word)))
            what = str(told[0].get("description") or error).split(". Line")[0].split("<")[0].strip()
            raise self.error(start, f"{what}{f': {word!r}' if word else ''}") from error
        found = [tree for tree in found if tree is not None]
        if len(found) != 1:
            raise self.error(0, f"the text must be one {'SELECT' if into is None else 'condition'}, not {len(found)}")
        return found[0]


def _asof_first(tokens: list[Token]) -> list[Token]:
    """With ``LEFT [OUTER] ASOF JOIN`` as ``ASOF LEFT [OUTER] JOIN``, which the parser knows."""
    tokens = list(tokens)
    for at, token in enumerate(tokens):
        first = at
        while first > 0 and tokens[first - 1].text.upper() in ("LEFT", "OUTER", "INNER"):
            first -= 1
        if token.text.upper() == "ASOF" and first < at:
            tokens[first : at + 1] = [token, *tokens[first:at]]
    return tokens


def _functions(tokens: list[Token]) -> list[Token]:
    """With Spark's ``window(...)`` as a function anywhere, which the parser takes for a clause behind GROUP BY."""
    return [
        Token(TokenType.VAR, each.text, each.line, each.col, each.start, each.end)
        if each.token_type == TokenType.WINDOW and behind.token_type == TokenType.L_PAREN
        else each
        for each, behind in zip(tokens, [*tokens[1:], *tokens[-1:]], strict=True)
    ]


def _pairs(tokens: list[Token]) -> dict[int, int]:
    """Where the parenthesis that closes each opening one stands, among tokens."""
    found, open_ones = {}, []
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            open_ones.append(at)
        elif token.token_type == TokenType.R_PAREN and open_ones:
            found[open_ones.pop()] = at
    return found


def _once_nested(tokens: list[Token]) -> list[Token]:
    """Without parentheses that enclose what others enclose already: the parser goes down into each pair."""
    pairs = _pairs(tokens)
    twice = {at + 1 for at, end in pairs.items() if pairs.get(at + 1) == end - 1}
    depth, lists = [0], set()  # (1, 2) is a row
    for at, token in enumerate(tokens):
        if at in pairs:
            depth.append(at)
        elif token.token_type == TokenType.COMMA:
            lists.add(depth[-1])
        elif at == pairs.get(depth[-1]):
            depth.pop()
    twice -= lists
    left_out = twice | {pairs[at] for at in twice}
    return [token for at, token in enumerate(tokens) if at not in left_out]


def argument(node: Node, name: str) -> Any:
    """A clause of a tree, whose name is a word of Python in some versions of sqlglot."""
    return node.args.get(f"{name}_") or node.args.get(name)


def leaves(node: Node, holds: bool, joined: Any) -> Iterator[tuple[Node, bool]]:
    """What ``AND`` (or ``OR``, as `joined` says) joins, and whether it is to hold or to fail, NOT resolved."""
    other = exp.Or if joined is exp.And else exp.And
    waiting = [(node, holds)]
    while waiting:
        node, holds = waiting.pop()
        while isinstance(node := node.unnest(), exp.Not):
            node, holds = node.this, not holds
        if isinstance(node, joined if holds else other):
            waiting += [(node.right, holds), (node.left, holds)]
        else:
            yield node, holds


def told(node: Node) -> str:
    """An expression as an error names it."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}(...)"
    return f"{type(node).__name__.upper()} ({sqlglot.Dialect.get_or_raise(None).generate(node, copy=True)})"
