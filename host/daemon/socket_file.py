"""A Unix socket's file: private to its owner, not stolen from a live daemon, replaced after one died."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path

from muntin.host.errors import DaemonError

MAX_PATH = 107  # sun_path of Linux, less its final zero


class SocketFile:
    """Binds a listening socket at `path`.

    A lock file beside it settles which of two daemons started at once may replace a stale socket.

    Parameters
    ----------
    path : Path
        Where. Its directory is made, for its owner alone, where it is missing.
    handles : (int, int), optional
        Of one that another process has bound there and hands over: it is taken as it is.

    Attributes
    ----------
    listener : socket.socket
        Bound and listening; the socket file has mode 0600.

    Raises
    ------
    DaemonError
        Another daemon listens there, something else than a socket is there, the directory belongs to somebody
        else or may be written by others, or the path is too long.
    """

    def __init__(self, path: Path, handles: tuple[int, int] | None = None):
        self.path = path
        if handles is not None:
            self._made_directory, self._lock = True, handles[1]
            self.listener = socket.socket(fileno=handles[0])
            return
        if len(os.fsencode(path)) > MAX_PATH:
            raise DaemonError(f"the socket path {path} is longer than {MAX_PATH} bytes; choose a shorter one")
        self._made_directory = self._private_directory(path.parent)
        self._lock = self._take_lock()
        try:
            self._remove_stale()
            self.listener = self._bind()
        except BaseException:
            self._release_lock()
            raise

    @property
    def handles(self) -> tuple[int, int]:
        """Of the listener and the lock, for a process that goes on with them."""
        return self.listener.fileno(), self._lock

    def hand_over(self) -> None:
        """Close both, where another process has them now: it removes the file."""
        self.listener.close()
        os.close(self._lock)

    def remove(self) -> None:
        """Close the listener and remove the file, and the directory where it was made here and is empty."""
        self.listener.close()
        self.path.unlink(missing_ok=True)
        self._release_lock()
        if self._made_directory:
            try:
                self.path.parent.rmdir()
            except OSError:  # somebody else put a file there
                return

    @staticmethod
    def _private_directory(directory: Path) -> bool:
        try:
            directory.mkdir(mode=0o700, parents=True)
            return True
        except FileExistsError:
            pass
        except OSError as error:
            raise DaemonError(f"cannot make the socket's directory {directory}: {error.strerror}") from error
        status = directory.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise DaemonError(f"the socket's directory {directory} is not a directory")
        if status.st_uid != os.getuid():
            raise DaemonError(f"the socket's directory {directory} belongs to another user; choose one of your own")
        if status.st_mode & 0o022:
            raise DaemonError(
                f"others may write to the socket's directory {directory}; put the socket into a directory "
                f"of its own (a missing one is made), or run: chmod go-w {directory}"
            )
        return False

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    def _take_lock(self) -> int:
        while True:
            handle = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A daemon that just ended may have removed the file between our open and our lock.
                if os.fstat(handle).st_ino == os.stat(self._lock_path).st_ino:
                    return handle
                os.close(handle)
            except FileNotFoundError:
                os.close(handle)
            except BlockingIOError as error:
                os.close(handle)
                raise self._in_use() from error

    def _release_lock(self) -> None:
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)

    def _remove_stale(self) -> None:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise DaemonError(f"{self.path} exists and is not a socket; choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fspath(self.path))
            except ConnectionRefusedError:
                self.path.unlink()
                return
            except OSError as error:
                raise DaemonError(f"cannot tell whether {self.path} is in use: {error.strerror}") from error
        raise self._in_use()

    def _in_use(self) -> DaemonError:
        return DaemonError(f"a daemon listens at {self.path} already; stop it, or choose another --socket")

    def _bind(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)  # the file must not be open to others even before the chmod
        try:
            listener.bind(os.fspath(self.path))
            os.chmod(self.path, 0o600)
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            raise DaemonError(f"cannot listen at {self.path}: {error.strerror}") from error
        finally:
            os.umask(mask)
        return listener
