"""Read and write tables where they are: files, object storage, PostgreSQL."""
