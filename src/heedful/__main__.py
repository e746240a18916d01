"""python -m heedful is the command heedful."""

from heedful.cli import main

main(prog_name="heedful")
