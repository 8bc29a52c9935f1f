// The commands: names, summaries, subcommands and flags. command-line.ts runs them; the list in the help and the
// completion scripts are generated from this declaration. A command's module is loaded on demand, so that commands such
// as version and keys start fast.

import type { Command } from './command.js';

export const commands: readonly Command[] = [
  {
    name: 'serve',
    summary: 'start the server (default)',
    takesSettings: true,
    words: 'recommended',
    load: async () => {
      const { serve, FLAGS } = await import('./serve.js');
      return { run: serve, flags: FLAGS };
    },
  },
  {
    name: 'run',
    summary: 'download a model if needed, serve it and chat with it',
    takesSettings: true,
    words: 'recommended',
    load: async () => {
      const { run, FLAGS } = await import('./run.js');
      return { run, flags: FLAGS };
    },
  },
  {
    name: 'chat',
    summary: 'chat with a model in the terminal',
    takesSettings: true,
    load: async () => {
      const { chat, FLAGS } = await import('./chat.js');
      return { run: chat, flags: FLAGS };
    },
  },
  {
    name: 'ps',
    summary: 'show the running server: its models, memory, streams and uptime',
    takesSettings: true,
    load: async () => {
      const { ps, FLAGS } = await import('./ps.js');
      return { run: ps, flags: FLAGS };
    },
  },
  {
    name: 'logs',
    summary: "show the server's log, or follow it",
    takesSettings: true,
    load: async () => {
      const { logs, FLAGS } = await import('./logs.js');
      return { run: logs, flags: FLAGS };
    },
  },
  {
    name: 'keys',
    summary: 'create, change, list, rotate and revoke API keys',
    takesSettings: true,
    actions: ['create', 'change', 'list', 'revoke', 'rotate'],
    load: async () => {
      const { keys, FLAGS } = await import('./keys.js');
      return { run: keys, flags: FLAGS };
    },
  },
  {
    name: 'webhooks',
    summary: 'list, create, change and delete webhook endpoints, and rotate their secrets',
    takesSettings: true,
    actions: ['list', 'create', 'change', 'enable', 'disable', 'rotate', 'delete', 'deliveries'],
    load: async () => {
      const { webhooks, FLAGS } = await import('./webhooks.js');
      return { run: webhooks, flags: FLAGS };
    },
  },
  {
    name: 'organizations',
    summary: 'list organizations, or let one be opened on the dashboard from all addresses again',
    takesSettings: true,
    actions: ['list', 'clear-addresses'],
    load: async () => {
      const { organizations, FLAGS } = await import('./organizations.js');
      return { run: organizations, flags: FLAGS };
    },
  },
  {
    name: 'models',
    summary: 'list served and recommended models; serve or unserve downloaded models',
    takesSettings: true,
    actions: ['serve', 'unserve'],
    load: async () => {
      const { models, FLAGS } = await import('./models.js');
      return { run: models, flags: FLAGS };
    },
  },
  {
    name: 'pull',
    summary: 'download a model: monolith pull OWNER/REPO[:QUANTIZATION]',
    takesSettings: true,
    words: 'recommended',
    load: async () => {
      const { pull, FLAGS } = await import('./pull.js');
      return { run: pull, flags: FLAGS };
    },
  },
  {
    name: 'rm',
    summary: 'delete a downloaded model',
    takesSettings: true,
    load: async () => {
      const { rm, FLAGS } = await import('./rm.js');
      return { run: rm, flags: FLAGS };
    },
  },
  {
    name: 'cache',
    summary: 'show or empty the prompt cache of the running server; pin prompts',
    takesSettings: true,
    actions: ['status', 'clear', 'warm', 'unpin'],
    words: 'file',
    load: async () => {
      const { cache, FLAGS } = await import('./cache.js');
      return { run: cache, flags: FLAGS };
    },
  },
  {
    name: 'inspect',
    summary: "show a model file's metadata and the memory it needs",
    takesSettings: true,
    words: 'file',
    load: async () => {
      const { inspect, FLAGS } = await import('./inspect.js');
      return { run: inspect, flags: FLAGS };
    },
  },
  {
    name: 'doctor',
    summary: 'check this machine and the settings, and report what to fix',
    takesSettings: true,
    load: async () => {
      const { doctor, FLAGS } = await import('./doctor.js');
      return { run: doctor, flags: FLAGS };
    },
  },
  {
    name: 'data',
    summary: 'check, back up and restore the database',
    takesSettings: true,
    actions: ['check', 'backup', 'restore', 'sweep'],
    words: 'file',
    load: async () => {
      const { data, FLAGS } = await import('./data.js');
      return { run: data, flags: FLAGS };
    },
  },
  {
    name: 'state',
    summary: 'import a data directory into a shared PostgreSQL database',
    takesSettings: true,
    actions: ['import'],
    load: async () => {
      const { state, FLAGS } = await import('./state.js');
      return { run: state, flags: FLAGS };
    },
  },
  {
    name: 'agents',
    summary: 'point a coding agent at this server: monolith agents claude-code',
    takesSettings: true,
    words: 'agent',
    load: async () => {
      const { agents, FLAGS } = await import('./agents.js');
      return { run: agents, flags: FLAGS };
    },
  },
  {
    name: 'settings',
    summary: 'print all settings as a Markdown page',
    takesSettings: false,
    words: 'none',
    load: async () => {
      const { settings, FLAGS } = await import('./settings.js');
      return { run: async (argv) => await settings(argv), flags: FLAGS };
    },
  },
  {
    name: 'bench',
    summary: 'measure a server (bench serve) or tune a running one (bench tune)',
    takesSettings: true,
    actions: ['serve', 'tune'],
    words: 'none',
    load: async () => {
      const { bench } = await import('./bench.js');
      const { FLAGS: serve } = await import('./bench-serve-flags.js');
      const { FLAGS: tune } = await import('./bench-tune.js');
      return { run: bench, flags: {}, actionFlags: { serve, tune } };
    },
  },
  {
    name: 'debug',
    summary: 'print tokens and logits of a model, to compare engines',
    takesSettings: true,
    actions: ['tokens', 'logits', 'vision', 'template'],
    load: async () => {
      const { debug, FLAGS } = await import('./debug.js');
      return { run: debug, flags: FLAGS };
    },
  },
  {
    name: 'completion',
    summary: 'print a completion script for bash, zsh or fish',
    takesSettings: false,
    words: 'shell',
    load: async () => {
      const { completion, FLAGS } = await import('./completion.js');
      return { run: (argv) => completion(argv, commands), flags: FLAGS };
    },
  },
  {
    name: 'version',
    summary: 'print the version and build details',
    takesSettings: false,
    words: 'none',
    load: async () => {
      const { version, FLAGS } = await import('./version.js');
      return { run: version, flags: FLAGS };
    },
  },
];
