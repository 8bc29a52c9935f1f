// Tests device selection, as far as is possible without a GPU. On a machine with a GPU, `auto` and `cuda` load the
// model onto it.
import t from 'tap';
import { loadAddon } from '../../src/engine/load-addon.js';
import { loadOptions, starterPath } from './starter.js';

const addon = loadAddon();
const load = (device: string): ReturnType<typeof addon.load> =>
  addon.load(`device ${device}`, starterPath, { ...loadOptions, device }, () => undefined);

t.test('an invalid device name is refused with an error that lists the valid ones', async (t) => {
  for (const device of ['', 'gpu', 'cuda:', 'cuda:x', 'cuda:-1', 'cuda:99999999999', 'CPU']) {
    t.throws(
      () => addon.inspect(starterPath, { ...loadOptions, device }),
      { name: 'TypeError', message: /device must be auto, cpu, cuda or cuda:N/ },
      device,
    );
  }
});

t.test('device auto selects an available device', async (t) => {
  const engine = await load('auto');
  t.match(engine.backend.name, /^(cpu|cuda)$/);
  await engine.close();
});

t.test('a missing GPU gives an error that says what is missing', async (t) => {
  await t.rejects(load('cuda:999'), {
    message:
      /device cuda:999: (no NVIDIA driver|no NVIDIA GPU|the NVIDIA driver|there is no GPU 999|this build has no CUDA)/,
  });
});
