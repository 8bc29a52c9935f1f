// Sends the requests that coding agents made in a session (test/data/agents). Each must succeed, and only the listed
// parts may be ignored.
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { agentNames, agentRequests, type AgentName } from '../support/agent-requests.js';
import { post } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  models: ['gpt-5.5', 'scripted'],
  context: 65_536,
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off' },
});
t.teardown(() => server.stop());

/** Collects the names in the x-ignored-* headers of all responses in a session. */
const ignored: Readonly<Record<AgentName, readonly string[]>> = {
  codex: ['client_metadata', 'text.verbosity', 'tool_search', 'web_search'],
  'claude-code': [],
  'qwen-code': [],
  opencode: [],
  pi: [],
  continue: [],
};

for (const agent of agentNames) {
  t.test(`serves a session of ${agent}`, async (t) => {
    const requests = agentRequests(agent);
    t.ok(requests.length >= 2, `${requests.length} requests`);
    const names = new Set<string>();
    for (const { path, headers, body } of requests) {
      const response = await post(server, path, body, headers);
      const text = await response.text();
      t.equal(response.status, 200, `${path} ${text.slice(0, 300)}`);
      t.notMatch(text, /"error":\{/);
      for (const kind of ['parameters', 'tools', 'content', 'schema-keywords'])
        for (const name of response.headers.get(`x-ignored-${kind}`)?.split(/, ?/) ?? []) names.add(name);
    }
    t.same([...names].sort(), ignored[agent]);
  });
}
