// Walks through a page with the Tab key, as a user without a mouse does.

import type { Page } from 'playwright-core';

/**
 * Collects the elements that the Tab key must reach, and records on each focus whether the element, its label or the
 * row that it covers shows an outline or a shadow. In a group of radio buttons, Tab reaches only the checked button.
 */
const WATCH = `(() => {
  const scope = document.querySelector('dialog[open]') ?? document;
  const text = (one) => one.tagName.toLowerCase() + ' "' + (one.getAttribute('aria-label') ?? one.innerText ?? '').trim().slice(0, 40) + '"';
  const wanted = [...scope.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(
    (one) =>
      !one.disabled && one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) &&
      !(one.type === 'radio' && !one.checked && scope.querySelector('input[name="' + one.name + '"]:checked')),
  );
  const marks = (one, part) => {
    const { outlineStyle, boxShadow } = getComputedStyle(one, part);
    return outlineStyle !== 'none' || boxShadow !== 'none';
  };
  const seen = new Set();
  const unmarked = new Set();
  document.addEventListener('focusin', ({ target }) => {
    seen.add(target);
    const label = target.closest('label');
    const field = target.closest('.palette-field, .composer');
    if (!marks(target) && !marks(target, '::after') && !(label && marks(label)) && !(field && marks(field)))
      unmarked.add(text(target));
  });
  window.walk = {
    count: wanted.length,
    missed: () => wanted.filter((one) => one.isConnected && !seen.has(one)).map(text),
    unmarked: () => [...unmarked],
  };
  return wanted.length;
})()`;

/**
 * Presses Tab until every control of the page, or of the open dialog, has had the focus. Returns a line for each
 * control that Tab does not reach or that does not show its focus.
 */
export async function tabThrough(page: Page): Promise<string[]> {
  const count = (await page.evaluate(WATCH)) as number;
  let missed = ['nothing was tried'];
  // Date fields take several presses each.
  for (let presses = 0; missed.length > 0 && presses < 3 * count + 30; presses++) {
    await page.keyboard.press('Tab');
    if (presses % 10 === 9 || presses >= count) missed = (await page.evaluate('walk.missed()')) as string[];
  }
  const unmarked = (await page.evaluate('walk.unmarked()')) as string[];
  return [...missed.map((one) => `not reached: ${one}`), ...unmarked.map((one) => `no visible focus: ${one}`)];
}
