"""``anonflow studio``: the workspace in the browser.

Pages change the text of a plan's file and start the same commands that a terminal starts; whatever is decided goes
through the commands' own functions and is in the ledger.
"""
