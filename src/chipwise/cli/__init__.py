"""The command line: one file a command. It prints; everything else returns."""
