"""The semantic drift index: how far the candidate's answers lie from the reference's in meaning."""
