from relaydeck.cli import main

main()
