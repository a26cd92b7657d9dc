-- Finds whether a session of the console has ended, or a sign-in link was used.
CREATE INDEX audit_console ON audit (record) WHERE action IN ('session.ended', 'session.link_used');
