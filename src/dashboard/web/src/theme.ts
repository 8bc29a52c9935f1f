// The theme: light, dark, or the system's. The choice is an attribute of <html>, from which styles/tokens.css derives
// the colors.
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'monolith.theme';
const listeners = new Set<() => void>();

export function readTheme(): Theme {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === 'light' || stored === 'dark' ? stored : 'system';
  } catch {
    return 'system'; // storage can be disabled
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

export function chooseTheme(theme: Theme): void {
  try {
    if (theme === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // storage is unavailable, so the choice is kept only for this visit
  }
  applyTheme(theme);
  for (const listener of listeners) listener();
}

/** Calls the listener when the user or the system changes the colors, so that canvases are repainted. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', listener);
  return () => {
    listeners.delete(listener);
    system.removeEventListener('change', listener);
  };
}
