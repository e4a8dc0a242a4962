"""What tepid says of input that it cannot use: one sentence, and the row that is to blame."""


class InputError(ValueError):
    """Input that cannot be used; the message is one sentence for the person who gave it."""


class RowError(InputError):
    """One row is to blame; `moved` says the same of its place in the whole."""

    def __init__(self, name: str, must: str, got: str, row: int) -> None:
        self.name, self.must, self.got, self.row = name, must, got, row
        super().__init__(f"{name} must {must}, got {got} at row {row}")

    def __reduce__(self) -> tuple[type["RowError"], tuple[str, str, str, int]]:
        # Otherwise a worker process could not hand the error to its parent.
        return RowError, (self.name, self.must, self.got, self.row)

    def moved(self, start: int, name: str | None = None) -> "RowError":
        """The same complaint about row `start + row` of the data called `name`."""
        return RowError(name or self.name, self.must, self.got, start + self.row)
