"""Who may do what: tokens, roles, and the guards of the API and of the pages."""
