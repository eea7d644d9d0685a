"""Who runs next, and with how many tokens: pure, the time is passed in."""
