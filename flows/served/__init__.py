"""The stack that stays: PostgreSQL, Prefect, MLflow and a worker on one machine, kept up by one command.

``stack`` supervises the processes, ``child`` is what they run, ``release`` is the flow a schedule starts,
``approval`` waits for people, ``keeper`` wakes runs that were decided elsewhere or cut short. Nothing but the
standard library is imported here: Prefect must find its settings in the environment when it is imported.
"""
