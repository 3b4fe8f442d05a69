"""Install missing Debian packages for the tests when that is possible, and say so when it is not."""

import os
import shutil
import subprocess
import sys


def main(names: list[str]) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed: {', '.join(missing)}; the tests that need them will say that they were left out")
        return
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update", "-q"], check=False, **quiet)
    done = subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", *missing], check=False, **quiet)
    if done.returncode:
        print(f"could not install {', '.join(missing)}; the tests that need them will say that they were left out")


if __name__ == "__main__":
    main(sys.argv[1:])
