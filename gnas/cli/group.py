"""How every command ends: an error is one line and an exit code, never a traceback."""

from __future__ import annotations

import errno
import functools
import os
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from gnas.errors import InputError, Interrupted, RunError, is_out_of_memory
from gnas.printed import mask_address, remember_secrets, to_printable

FAILED, WRONG_USE, STOPPED = 1, 2, 130
_UsageError: Any = typer.BadParameter.__mro__[1]  # of the click that typer carries, or of click itself

COMMAND: ContextVar[tuple[str, ...]] = ContextVar("COMMAND", default=())  # the words of the command under way
STARTED: ContextVar[float | None] = ContextVar("STARTED", default=None)  # when it began (time.monotonic)


class GuardedGroup(TyperGroup):
    """Commands whose errors become one line, however they are started: ``gnas``, ``python -m gnas`` or a test."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        argv = list(sys.argv[1:] if args is None else args)
        extra["prog_name"] = "gnas"
        COMMAND.set(tuple(argv))
        STARTED.set(time.monotonic())
        code = run_guarded(lambda: super(GuardedGroup, self).main(argv, standalone_mode=False, **extra), argv)
        return sys.exit(code) if standalone_mode else code


def run_guarded(call: Callable[[], Any], argv: Sequence[str]) -> int:
    """Call, and return the exit code. An error is explained on standard error."""
    for word in (*argv, os.environ.get("MLFLOW_TRACKING_URI", "")):
        remember_secrets(word)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character gets a question mark, not a crash
    with warnings.catch_warnings():
        warnings.showwarning = functools.partial(show_warning, shown=set())
        try:
            check_current_folder()
            code = call()
            if code == STOPPED:
                print("stopped", file=sys.stderr)
            return code if isinstance(code, int) else 0
        except BrokenPipeError:  # the reader has gone, as in "gnas runs list | head -1"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get("GNAS_DEBUG"):
                print(to_printable(traceback.format_exc()), file=sys.stderr)
            text, code = explain_error(error, argv)
            print(to_printable(text), file=sys.stderr)
            return code


def check_current_folder() -> None:
    """An error if the current folder has been deleted: libraries fail there in many ways."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise InputError("the current folder has been deleted; change to another one with cd") from None


def explain_error(error: BaseException, argv: Sequence[str]) -> tuple[str, int]:
    """One line for an error, and the exit code."""
    message = " ".join(str(error).split())
    if isinstance(error, Interrupted):
        return f"{message}; resume with: {add_resume(argv)}", STOPPED
    if isinstance(error, KeyboardInterrupt):
        return "stopped", STOPPED
    if isinstance(error, typer.Abort):
        return "nothing done", FAILED
    if isinstance(error, InputError):
        return f"error: {message}", WRONG_USE
    if isinstance(error, _UsageError):
        return explain_usage(error), WRONG_USE
    if isinstance(error, OSError):
        return f"error: {explain_os_error(error)}", FAILED
    if isinstance(error, RunError):
        return f"error: {message}", FAILED
    if _is_lost_process(error):
        return (
            "error: another process of this run has gone; the last checkpoint is kept: start it again with --resume",
            FAILED,
        )
    if is_out_of_memory(error):
        return f"error: out of memory ({message[:200] or 'on the host'}); give it smaller data, or --device cpu", FAILED
    return f"error: unexpected {type(error).__name__}: {message[:300]} (GNAS_DEBUG=1 shows where)", FAILED


def _is_lost_process(error: BaseException) -> bool:
    """Whether another process of this run is gone. Gloo raises a plain RuntimeError that names its own source file."""
    torch = sys.modules.get("torch")  # an error of torch comes after its import, which is slow
    return (torch is not None and isinstance(error, torch.distributed.DistBackendError)) or "/gloo/" in str(error)


def explain_usage(error: Any) -> str:
    """A mistyped command line: what is wrong, and where to look."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "gnas"
    return f"error: {message[:1].lower() + message[1:]}; see {where} --help"


def explain_os_error(error: OSError) -> str:
    """A failure of the system, with the file it happened to and what helps."""
    where = f"{error.filename}: " if error.filename else ""
    help_ = {
        errno.ENOSPC: "; free some space, then continue with --resume",
        errno.EDQUOT: "; free some space, then continue with --resume",
        errno.EACCES: "; choose another folder with --out",
        errno.EROFS: "; choose another folder with --out",
    }
    return f"{where}{error.strerror or ' '.join(str(error).split())}{help_.get(error.errno or 0, '')}"


def add_resume(argv: Sequence[str]) -> str:
    """The command as it was given, with --resume."""
    return quote_command([*(word for word in argv if word not in ("--force", "--resume")), "--resume"])


def quote_command(argv: Sequence[str]) -> str:
    """The words of a command as they are typed into a shell, without secrets."""
    as_module = Path(sys.argv[0]) == Path(__file__).parents[1] / "__main__.py"
    return f"{'python -m gnas' if as_module else 'gnas'} {shlex.join(map(mask_address, argv))}"


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
    *,
    shown: set[str],
) -> None:
    """Print a warning of gnas, or one about the GPU, as one line and once. Those of other libraries are not shown."""
    text = " ".join(str(message).split())
    ours = Path(__file__).parents[1] in Path(filename).resolve().parents
    if text not in shown and (ours or "CUDA" in text or "NVIDIA" in text):
        shown.add(text)
        print(to_printable(f"warning: {text if ours else text[:200]}"), file=sys.stderr)
