"""Where the `tepid` command begins: before anything that takes time to import."""

from tepid.cli.stopping import stoppable


def main() -> None:
    """Run the command, which Ctrl-C ends with one sentence even while it is still loading."""
    with stoppable():
        from tepid.cli import app  # noqa: PLC0415  # so that it is loaded inside

        app.main()
