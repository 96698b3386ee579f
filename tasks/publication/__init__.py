"""Write candidates and their documents; publish, deliver and withdraw releases."""
