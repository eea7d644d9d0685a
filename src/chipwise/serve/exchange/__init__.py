"""The served models at their posts, and how others take over from them."""
