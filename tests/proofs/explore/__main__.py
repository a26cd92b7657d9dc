"""`python -m tests.proofs.explore`: explore for a while, print what was tried and what was found."""

from tests.proofs.explore.boundary import install

install()  # before anything of Relaydeck is imported

from tests.proofs.explore.command import main  # noqa: E402

main()
