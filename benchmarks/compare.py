"""Name what became slower: `python benchmarks/compare.py OLD NEW`, with two files written by `make bench`.

The machine itself may be faster or slower than before. So our change in each row is divided by the median change of the
other contestants in the same table. The exit status is 1 if a row became more than 10% slower.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

OURS = "lightning_bleu"

Rows = dict[tuple[str, ...], dict[str, float]]


def read(path: Path) -> dict[str, Rows]:
    """Read the tables of times in a file, keyed by heading."""
    tables: dict[str, Rows] = {}
    heading, header = "", list[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            heading, header = line[4:], []
        elif line.startswith("|") and not header:
            header = cells
        elif line.startswith("|") and not line.startswith("| ---") and OURS in header:
            start = header.index(OURS)
            times = {name: float(cell) for name, cell in zip(header[start:], cells[start:]) if cell}
            tables.setdefault(heading, {})[tuple(cells[:start])] = times
    return tables


def compare(old: dict[str, Rows], new: dict[str, Rows]) -> list[tuple[str, float]]:
    """Every row that both files have, and the factor by which it became slower; largest factor first."""
    changes = []
    for heading in old.keys() & new.keys():
        both = [(row, old[heading][row], new[heading][row]) for row in old[heading].keys() & new[heading].keys()]
        others = [
            after[name] / before[name] for _, before, after in both for name in before.keys() & after.keys() - {OURS}
        ]
        machine = statistics.median(others) if others else 1.0
        changes += [
            (f"{heading} ({', '.join(row)})", after[OURS] / before[OURS] / machine) for row, before, after in both
        ]
    return sorted(changes, key=lambda change: -change[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the rows that became slower, and the median change."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args(argv)
    changes = compare(read(args.old), read(args.new))
    if not changes:
        raise SystemExit("the files have no rows in common")
    slower = [(row, factor) for row, factor in changes if factor > 1.1]
    for row, factor in slower:
        print(f"{factor:.2f} times as long: {row}")
    median = statistics.median(factor for _, factor in changes)
    print(
        f"{len(slower)} of {len(changes)} rows became more than 10% slower; "
        f"the median row takes {median:.2f} times as long as before"
    )
    return 1 if slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
