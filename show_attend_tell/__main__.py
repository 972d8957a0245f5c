"""`python -m show_attend_tell`, the same as `sat`."""

from show_attend_tell.cli import main

main()
