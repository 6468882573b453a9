from core_rl import Component, hookimpl


@hookimpl
def core_rl_losses():
    return [
        Component(
            name="tempered",
            target="acme_tempered.loss:Tempered",
            config="acme_tempered.config:TemperedConfig",
            summary="the ratio squashed by a tanh instead of clipped",
            formula="l_t = -A_t tanh(beta (r_t - 1)) / beta",
            needs={"old_logprobs"},
        )
    ]
