"""Seconds that `import tallyfold` and `tallyfold --help` take, each in fresh processes."""

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import tallyfold": [sys.executable, "-c", "import tallyfold"],
    "tallyfold --help": [sys.executable, "-m", "tallyfold", "--help"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed here")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    print(
        f"{'command':<20} {'median s':>9} {'lowest s':>9}   of {arguments.repeats} fresh processes"
    )
    for name, command in COMMANDS.items():
        seconds(command)  # warms the file cache and the byte code
        times = [seconds(command) for _ in range(arguments.repeats)]
        print(f"{name:<20} {statistics.median(times):>9.3f} {min(times):>9.3f}")


if __name__ == "__main__":
    main()
