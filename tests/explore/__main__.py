"""`python -m tests.explore`: explore for a while, print what was tried and what was found."""

from tests.explore.boundary import install

install()  # before anything of Relaydeck is imported

from tests.explore.command import main  # noqa: E402

main()
