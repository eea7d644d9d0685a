"""The endpoints: what a client can ask of a server, one file each."""
