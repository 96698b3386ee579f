"""The only package that knows SQLAlchemy and psycopg2."""
