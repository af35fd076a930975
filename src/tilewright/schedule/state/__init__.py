"""The program under a schedule: references into it, its scopes, and what is known of them."""
