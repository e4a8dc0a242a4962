"""Run `tepid` on one case after another: a process of its own, because a case may abort it.

The argument is a file with one JSON case per line. Each result is one line of JSON on stdout, so
that the parent process knows which case was the last.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import tepid
from tepid.cli.main import run

ADDRESS_SPACE = 8 << 30  # a header that claims terabytes must not take the machine with it


def limit_memory():
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  # POSIX only

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def run_command(args):
    """The exit code, or the exception that escaped, and what was printed on stderr."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["tepid", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run()
        except SystemExit as ended:
            return ended.code or 0, err.getvalue()
        except BaseException as error:  # noqa: BLE001  # which one is the result
            return repr(error), err.getvalue()
    return 0, err.getvalue()


def raised_by_fit(path):
    """The name of the exception that the Python function raises, if any."""
    try:
        tepid.uts(path)
    except tepid.InputError:
        return "InputError"
    except BaseException as error:  # noqa: BLE001  # which one is the result
        return repr(error)
    return ""


def main():
    limit_memory()
    for line in Path(sys.argv[1]).read_text("utf-8").splitlines():
        case = json.loads(line)
        out = Path(case["out"])
        code, err = run_command([*case["args"], "-o", str(out)])
        result = {"name": case["name"], "code": code, "err": err, "written": out.exists()}
        if case["logits"] is not None:
            result["raised"] = raised_by_fit(case["logits"])
        sys.__stdout__.write(json.dumps(result) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    main()
