// Tests how a process with engines exits: an idle engine does not keep the process alive, exiting does not crash, and
// running out of memory in a native function does not end the process.
import { spawnSync } from 'node:child_process';
import t from 'tap';

const starter = new URL('./starter.js', import.meta.url).href;

function node(body: string): { status: number | null; signal: string | null; stdout: string; stderr: string } {
  const script = `import { loadStarter, promptOf, Recorder, submitOptions } from ${JSON.stringify(starter)};\n${body}`;
  return spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', timeout: 60_000 });
}

t.test('an idle engine and channel do not keep the process alive', async (t) => {
  const { status, signal, stderr } = node(`const recorder = new Recorder(await loadStarter('idle'));`);
  t.same({ status, signal }, { status: 0, signal: null }, stderr);
});

t.test('a running request keeps the process alive until it ends', async (t) => {
  const { status, stdout } = node(`
    const engine = await loadStarter('running');
    const recorder = new Recorder(engine);
    const id = recorder.channel.submit(submitOptions(promptOf(engine), { maxTokens: 60 }));
    process.on('exit', () => console.log(recorder.of(id).at(-1).type));`);
  t.same({ status, stdout }, { status: 0, stdout: 'finished\n' });
});

t.test('process.exit() works while an engine is generating or loading', async (t) => {
  const generating = node(`
    const engine = await loadStarter('generating');
    const recorder = new Recorder(engine);
    const id = recorder.channel.submit(submitOptions(promptOf(engine), { maxTokens: 400 }));
    await recorder.until(() => recorder.of(id).length >= 2);
    process.exit(3);`);
  t.same([generating.status, generating.signal, generating.stderr], [3, null, '']);
  const loading = node(`loadStarter('loading'); process.exit(4);`);
  t.same([loading.status, loading.signal, loading.stderr], [4, null, '']);
});

t.test('an error thrown by onEvents is an uncaught exception', async (t) => {
  const { status, stderr } = node(`
    const engine = await loadStarter('throwing');
    const channel = engine.open(() => { throw new Error('from onEvents'); });
    channel.submit(submitOptions(promptOf(engine)));`);
  t.equal(status, 1);
  t.match(stderr, /Error: from onEvents/);
});

t.test(
  'a native function that runs out of memory throws an error',
  {
    skip:
      spawnSync('prlimit').status !== 0 || process.env['ASAN_OPTIONS'] !== undefined ? 'prlimit cannot be used' : false,
  },
  async (t) => {
    const { status, stdout, stderr } = node(`
    import { spawnSync } from 'node:child_process';
    import { readFileSync } from 'node:fs';
    const engine = await loadStarter('memory');
    const tokens = new Int32Array(4_000_000).fill(engine.findToken('<|im_end|>'));
    const limit = (bytes) => spawnSync('prlimit', ['--pid', String(process.pid), '--as=' + bytes + ':']);
    const used = Number(/VmSize:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;
    limit(used + 2 ** 25);
    let code = 'none';
    try { engine.detokenize(tokens); } catch (error) { code = error.code; }
    limit('unlimited');
    console.log(code, engine.detokenize(tokens).length);`);
    t.same({ status, stdout }, { status: 0, stdout: 'out_of_memory 40000000\n' }, stderr);
  },
);
