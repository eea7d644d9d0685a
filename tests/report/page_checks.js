// What is asked of a page in a browser; each gives a list of what is wrong with it.

const checks = {
  // Pairs of elements side by side in one box, whose boxes share more than a pixel either way.
  overlaps() {
    const found = [];
    const name = e => e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.trim().slice(0, 30);
    for (const box of document.querySelectorAll('main, section, .verdict, .answers, .tiles, .plots, .two, .dimensions, tr')) {
      const all = [...box.children].filter(e => e.getClientRects().length);
      for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length; j++) {
        const a = all[i].getBoundingClientRect(), b = all[j].getBoundingClientRect();
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1 && y > 1) found.push(name(all[i]) + ' | ' + name(all[j]));
      }
    }
    return found;
  },

  // Texts that end outside of their element, or of the page, where nothing scrolls them.
  clipped() {
    const found = [];
    for (const e of document.querySelectorAll('main *')) {
      if (e.closest('svg') || e.closest('.scroll') || !e.getClientRects().length) continue;
      if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline' && e.clientWidth > 0)
        found.push(e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40));
      const box = e.getBoundingClientRect();
      if (box.right > document.documentElement.clientWidth + 1) found.push('beyond the page: ' + e.tagName + '.' + e.className);
    }
    for (const t of document.querySelectorAll('svg text')) {
      const box = t.getBoundingClientRect(), around = t.closest('section').getBoundingClientRect();
      if (box.left < around.left - 1 || box.right > around.right + 1) found.push('svg text ' + t.textContent);
    }
    return found;
  },

  // Texts of one plot that lie on each other.
  textsOnEachOther() {
    const found = [];
    for (const svg of document.querySelectorAll('svg')) {
      const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
      for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length; j++) {
        const [s, a] = all[i], [t, b] = all[j];
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 2 && y > 4) found.push(s + ' | ' + t);
      }
    }
    return found;
  },

  // Contrast of each text with what is behind it, by WCAG 2.1.
  contrasts() {
    const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
    const over = (f, b) => f[3] >= 1 ? f : [0, 1, 2].map(i => f[i] * f[3] + b[i] * (1 - f[3])).concat(1);
    const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const behind = e => { const stack = []; for (let n = e; n; n = n.parentElement) stack.push(rgb(getComputedStyle(n).backgroundColor));
      return stack.reverse().reduce((b, f) => over(f, b), [255, 255, 255, 1]); };
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const e = walk.currentNode.parentElement;
      if (!walk.currentNode.textContent.trim() || !e.getClientRects().length || e.tagName === 'title' || e.tagName === 'STYLE') continue;
      const style = getComputedStyle(e), back = behind(e);
      const ink = over(rgb(e.closest('svg') ? style.fill : style.color), back);
      const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
      found.push([(a + 0.05) / (b + 0.05), e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.trim().slice(0, 30)]);
    }
    return found;
  },
};
