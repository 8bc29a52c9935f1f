// Which device a model is computed on. What a machine without a GPU can show; with one, `auto` and `cuda` load there.
import t from 'tap';
import { loadAddon } from '../../src/engine/load-addon.js';
import { loadOptions, starterPath } from './starter.js';

const addon = loadAddon();
const load = (device: string): ReturnType<typeof addon.load> =>
  addon.load(`device ${device}`, starterPath, { ...loadOptions, device }, () => undefined);

t.test('a device that is none is refused by name', async (t) => {
  for (const device of ['', 'gpu', 'cuda:', 'cuda:x', 'cuda:-1', 'cuda:99999999999', 'CPU']) {
    t.throws(
      () => addon.inspect(starterPath, { ...loadOptions, device }),
      { name: 'TypeError', message: /device must be auto, cpu, cuda or cuda:N/ },
      device,
    );
  }
});

t.test('auto finds one', async (t) => {
  const engine = await load('auto');
  t.match(engine.backend.name, /^(cpu|cuda)$/);
  await engine.close();
});

t.test('a GPU that is not there is an error that says what is missing', async (t) => {
  await t.rejects(load('cuda:999'), {
    message:
      /device cuda:999: (no NVIDIA driver|no NVIDIA GPU|the NVIDIA driver|there is no GPU 999|this build has no CUDA)/,
  });
});
