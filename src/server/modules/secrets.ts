// The server's keys: the configured API key, and the keys that encrypt reasoning, saved text and two-factor secrets.

import { SecondFactorCodes } from '../../accounts/second-factor-codes.js';
import type { KeyRing } from '../../accounts/sealing/key-ring.js';
import type { KeySealer } from '../../accounts/sealing/key-sealer.js';
import { openKeyRing, openSealer } from '../../accounts/sealing/open-sealer.js';
import { SecretBox } from '../../accounts/sealing/secret-box.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { Models } from './models.js';
import type { Storage } from './storage.js';

export interface Secrets extends Module {
  readonly sealer: KeySealer;
  readonly keys: KeyRing;
  readonly box: SecretBox;
  readonly codes: SecondFactorCodes;
}

export interface SecretsContext extends AppContext {
  storage: Storage;
  authentication: Authentication;
  models: Models;
}

export function openSecrets({
  config,
  telemetry: { log },
  primary,
  storage: { sealer: state, directory },
  authentication: { accounts },
  models: { configuredNames },
}: SecretsContext): Promise<Secrets> {
  return openModule(async () => {
    // Created before models have loaded, because the server already accepts requests then (and rejects them with 503
    // model_loading). The configured key must be valid for the very first request.
    if (primary && config.api_key !== null) await accounts.bootstrap(config.api_key);
    const sealer = await openSealer(state, config.secrets.signing_keys, [...configuredNames]);
    const keys = await openKeyRing(state, config.secrets.signing_keys);
    const box = new SecretBox(keys);
    const codes = new SecondFactorCodes(directory.secondFactors, directory.attempts, box, directory.now);
    if (primary)
      await codes.reseal((user) =>
        log.error({ user }, 'cannot decrypt a two-factor secret: its encryption key is not in secrets.signing_keys'),
      );
    return { sealer, keys, box, codes };
  });
}
