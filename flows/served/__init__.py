"""The permanent stack: PostgreSQL, Prefect, MLflow and a worker on one machine, supervised by one command.

``stack`` supervises the processes, ``child`` is what they run, ``release`` is the flow that a schedule starts,
``approval`` waits for people, ``reconciler`` resumes runs that were decided elsewhere or interrupted. Nothing but
the standard library is imported here: Prefect must find its settings in the environment when it is imported.
"""
