"""`idaq bench speed`: rates against this machine's own."""
