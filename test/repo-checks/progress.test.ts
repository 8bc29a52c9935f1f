// Tests a build's progress display.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

interface Step {
  done: number;
  total: number;
  name: string;
}
interface Progress {
  line(text: string): boolean;
  end(): void;
}
interface Script {
  readStep(line: string): Step | null;
  about(seconds: number): string;
  progress(
    what: string,
    options: { tty: boolean; columns?: number; write: (text: string) => void; now: () => number },
  ): Progress;
}

const script = (await import(pathToFileURL(join(packageRoot, 'scripts', 'progress.mjs')).href)) as Script;

t.test('parses build steps of Ninja and Make, and ignores other lines', (t) => {
  t.same(script.readStep('[12/263] Building CXX object CMakeFiles/monolith_text.dir/text/grammar/regex.cc.o'), {
    done: 12,
    total: 263,
    name: 'regex.cc',
  });
  t.same(script.readStep('[  5%] Building CXX object CMakeFiles/monolith_base.dir/base/utf8.cc.o'), {
    done: 5,
    total: 100,
    name: 'utf8.cc',
  });
  t.same(script.readStep('[262/263] Linking CXX shared library ../Release/monolith.node'), {
    done: 262,
    total: 263,
    name: 'monolith.node',
  });
  for (const line of [
    '',
    '[100%] Built target monolith',
    '[0/2] Re-checking globbed directories...',
    'FAILED: a.cc.o',
    'a.cc:12:3: error: no',
    '-- Configuring done',
  ])
    t.equal(script.readStep(line), null, line);
  t.same([3, 42, 100, 181].map(script.about), ['5 s', '45 s', '2 min', '3 min']);
  t.end();
});

t.test('overwrites one line on a terminal, and prints a line every 15 seconds elsewhere', (t) => {
  const step = (done: number): string => `[${done}/200] Building CXX object CMakeFiles/a.dir/some/file.cc.o`;
  for (const tty of [true, false]) {
    let ms = 0;
    let text = '';
    const steps = script.progress('building the engine', {
      tty,
      columns: 200,
      write: (more) => {
        text += more;
      },
      now: () => ms,
    });
    for (let done = 1; done <= 100; done++, ms += 1000) t.equal(steps.line(step(done)), true);
    t.equal(steps.line('a.cc:12:3: error: no'), false, 'other messages are left to the caller');
    steps.end();
    t.match(
      text,
      tty
        ? /\[==========          \] 50 %, about 2 min left {2}file\.cc\r\x1b\[K$/
        : /\nmonolith: building the engine: 45 %, about 2 min left \(file\.cc\)\n$/,
    );
    t.equal(text.split('\n').length, tty ? 1 : 7, 'fewer lines than files');
  }
  t.end();
});

t.test('estimates the remaining time of a resumed build from its own steps', (t) => {
  let ms = 0;
  let text = '';
  const steps = script.progress('building', {
    tty: true,
    columns: 200,
    write: (more) => {
      text = more;
    },
    now: () => ms,
  });
  for (let percent = 80; percent <= 90; percent++, ms += 10_000)
    steps.line(`[ ${percent}%] Building CXX object CMakeFiles/a.dir/file.cc.o`);
  t.match(text, /90 %, about 2 min left/);
  t.end();
});
