"""P4Runtime 1.5 for the embedded switch: one service class, in process or over gRPC.

`P4RuntimeService` serves a `Switch`; `InProcessClient` talks to it in virtual time;
`sglb.switch.p4runtime.grpc_server.GrpcServer` puts it on a socket. docs/p4runtime.md tells what is
supported and what was decided where the specification leaves a choice.
"""

from sglb.switch.p4runtime.bound import TranslationOptions
from sglb.switch.p4runtime.client import Atomicity, InProcessClient
from sglb.switch.p4runtime.service import API_VERSION, P4RuntimeService, ServiceOptions, Stream
from sglb.switch.p4runtime.status import Code, P4RuntimeError

__all__ = [
    "API_VERSION",
    "Atomicity",
    "Code",
    "InProcessClient",
    "P4RuntimeError",
    "P4RuntimeService",
    "ServiceOptions",
    "Stream",
    "TranslationOptions",
]
