package harness

import ()

const Secret = "a secret that is long enough to be one"

const AdminToken = "an administrator"

// Those of the payment provider.
const PaymentKey = "key of this shop at its provider"

const WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
