"""What pictures of sources are made of, on the live page and in reports."""
