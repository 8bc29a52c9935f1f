// Tests samplers that only other servers have: in every format, a request that enables such a sampler is rejected with
// an error that names the sampler.
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { ask } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  models: ['hal-1.0'],
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

const messages = [{ role: 'user', content: 'A: hi' }];
const formats: [path: string, body: object][] = [
  ['/v1/chat/completions', { messages, max_tokens: 4 }],
  ['/v1/completions', { prompt: 'A: hi', max_tokens: 4 }],
  ['/v1/messages', { messages, max_tokens: 4 }],
  ['/v1/responses', { input: messages, max_output_tokens: 4, store: false }],
];

t.test('a sampler that this server does not have is refused', async (t) => {
  const on = {
    dry_multiplier: 0.8,
    xtc_probability: 0.5,
    typical_p: 0.9,
    top_n_sigma: 1,
    dynatemp_range: 0.5,
    mirostat: 2,
    tfs_z: 0.9,
    top_a: 0.2,
    smoothing_factor: 0.3,
    adaptive_target: 0.5,
  };
  for (const [path, body] of formats)
    for (const [name, value] of Object.entries(on)) {
      const { status, body: answer } = await ask(server, path, { model: 'hal-1.0', ...body, [name]: value });
      t.equal(status, 422, `${path} ${name}`);
      const { error } = answer as { error: { code?: string; param: string; details?: { error_code: string } } };
      t.match(error, { param: name }, `${path} ${name}`);
      t.equal(error.code ?? error.details?.error_code, 'unsupported_parameter');
    }
});

t.test('a value that turns the sampler off is accepted', async (t) => {
  const off = {
    dry_multiplier: 0,
    dry_base: 1.75,
    dry_allowed_length: 2,
    dry_penalty_last_n: -1,
    dry_sequence_breakers: ['\n'],
    xtc_probability: 0,
    xtc_threshold: 0.1,
    typical_p: 1,
    top_n_sigma: -1,
    dynatemp_range: 0,
    dynatemp_exponent: 1,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: 0.1,
    tfs_z: 1,
    top_a: null,
    smoothing_factor: 0,
    adaptive_target: -1,
  };
  for (const [path, body] of formats) {
    const { status, headers, text } = await ask(server, path, { model: 'hal-1.0', ...body, ...off });
    t.equal(status, 200, `${path} ${text}`);
    t.equal(headers.get('x-ignored-parameters'), null, path);
  }
});
