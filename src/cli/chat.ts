// monolith chat: a conversation in the terminal, streamed over HTTP from the server at --url, from the server that uses
// the data directory, or from a server started in this process for the duration of the conversation.

import { commandConfig } from './command-config.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { CHAT_COMMANDS, converse } from './chat-loop.js';
import { historyPath } from './chat-history.js';
import { chosenModel, localPeer, modelsOf, ownPeer, remotePeer, runningServer } from './chat-peer.js';
import type { Peer } from './chat-peer.js';
import { chatSignals } from './chat-signals.js';
import { withFetchedModels } from './fetched-models.js';
import { noWords } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith chat [--model NAME | --model NAME=PATH] [--url URL --api-key KEY] [--system TEXT] [--no-history]

Starts an interactive chat in the terminal. Connects to the server at --url, or to the server that uses the data
directory. If no server is running, it loads the models in this process.

Commands in the chat:
${CHAT_COMMANDS}

In a terminal, each response is followed by its number of tokens, tokens per second and time to first token. The lines
that you type are kept in ~/.local/state/monolith/chat-history for the arrow keys, unless --no-history is given.

The command creates a temporary API key and revokes it at the end, unless --api-key is given. If stdin is a pipe, each
line is sent as a message, and only the responses are written to stdout.

Examples:
  monolith chat
  monolith chat --model my-model --system "Answer in one sentence."
  monolith chat --url https://llm.example.com --api-key "$MONOLITH_KEY"
  echo Hello | monolith chat
`;

export const FLAGS: OwnFlags = { '--url': 'value', '--system': 'value', '--no-history': 'switch' };

export async function chat(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  // --model NAME selects one of the server's models; --model NAME=SOURCE is the `model` setting and may be repeated.
  const given = loadConfig({ argv }, { ...FLAGS, '--model': 'values' }).own.lists.get('--model') ?? [];
  const isSetting = given.length > 0 && given.every((model) => model.includes('='));
  const { config: asked, values, words } = commandConfig(argv, isSetting ? FLAGS : { ...FLAGS, '--model': 'value' });
  noWords(words);
  const config = await withFetchedModels(asked, null);

  const signals = chatSignals();
  const peer = await findPeer(values.get('--url'), config, signals.armed);
  try {
    const models = await modelsOf(peer);
    const answered = await converse(peer, {
      model: chosenModel(values.get('--model') ?? config.model[0]?.name, models),
      models,
      system: values.get('--system') ?? null,
      history: values.has('--no-history') ? null : historyPath(),
      stop: signals.stop,
    });
    if (signals.stop.aborted) return Number(process.exitCode);
    return answered || process.stdin.isTTY ? 0 : 1;
  } finally {
    await peer.close();
    signals.off();
  }
}

/** `armed` is called once there may be a key to revoke. */
async function findPeer(url: string | undefined, config: Config, armed: () => void): Promise<Peer> {
  if (url !== undefined) {
    const peer = remotePeer(url, config);
    armed();
    return peer;
  }
  const running = config.model.length === 0 ? await runningServer(config) : null;
  if (running !== null) {
    armed();
    return localPeer(running, config);
  }
  const { peer } = await ownPeer({ ...config, host: '127.0.0.1', port: 0 });
  armed();
  return peer;
}
