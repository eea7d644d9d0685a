"""The threads that own engines: steps, tokens chosen, text told, failures outlived."""
