"""The interactive shell: a prompt over a session. Knows people and their terminals."""
