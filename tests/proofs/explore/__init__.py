"""Faults explored systematically: each operation runs again and again, and each time another call to the outside fails.

    boundary.py           counts the calls that leave the process (SQL, files, sockets, DNS), and lets one of them fail
    operations.py         what is explored, and the record that it changes
    subject.py            the process under test: one operation, one fault
    state.py              what the database must hold afterwards
    prepared_database.py  gives a PostgreSQL database back the rows it was prepared with
    explorer.py           prepares, forks, judges, and counts
    model_runs.py         runs the model of test_model.py, random operations on whole services, again and again
    planted.py            bugs on purpose: the exploration must find each of them

`make explore` runs it for as long as is asked; `make prove` runs a short form.
"""
