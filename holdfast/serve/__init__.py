"""Serve an adapting classifier over HTTP: tenants, micro-batches, an audit log, metrics and a live page."""

from holdfast.serve.audit import AuditLog, Verified, read_audit, verify_audit
from holdfast.serve.decision import Decision
from holdfast.serve.limits import Limits
from holdfast.serve.tenants import Tenants

__all__ = ["AuditLog", "Decision", "Limits", "Tenants", "Verified", "read_audit", "verify_audit"]
