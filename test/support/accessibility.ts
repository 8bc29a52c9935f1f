// Accessibility checks of a page by axe-core: names, roles, landmarks, heading order, contrast and target sizes.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

const path = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
let source: string | undefined;

/**
 * Runs all rules of axe-core on the page in its current state. Returns one line per rule and failing element: `where`,
 * the rule, the element's selector and the rule's description.
 */
export async function accessibilityProblems(page: Page, where: string): Promise<string[]> {
  source ??= readFileSync(path, 'utf8');
  // evaluated through the debugger, because the content security policy rightly refuses foreign script tags
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(source);
  // lets a change of size or color scheme take effect, transitions included
  await page.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    document.getAnimations().filter((one) => one.transitionProperty !== undefined).forEach((one) => one.finish());
    done();
  })))`);
  const { violations } = (await page.evaluate(
    'axe.run(document, { resultTypes: ["violations"], iframes: false })',
  )) as AxeResults;
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, any }) => {
      const detail = any[0]?.message ?? '';
      return `${where}: ${id} at ${target.flat().join(' ')}: ${help}${detail === '' ? '' : ` (${detail})`}`;
    }),
  );
}
