from tests.proofs.faults.table import main

if __name__ == "__main__":
    main()
