from muntin.host.native import isa


def test_isa_is_one_that_was_compiled() -> None:
    assert isa() in ("v2", "v3", "v4", "plain")
