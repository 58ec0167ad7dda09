// Language, theme, tabs, tables. Every figure is in the page already; this only shows, hides and orders.
var root = document.documentElement;
function one(selector, from) { return (from || document).querySelector(selector); }
function all(selector, from) { return Array.prototype.slice.call((from || document).querySelectorAll(selector)); }
var redraw = function () {};
root.classList.add('js');

function setLanguage(lang) {
  root.lang = lang;
  all('[data-lang]').forEach(function (button) { button.setAttribute('aria-pressed', String(button.dataset.lang === lang)); });
  redraw();
}
all('[data-lang]').forEach(function (button) {
  button.addEventListener('click', function () { setLanguage(button.dataset.lang); });
});

function isDark() {
  return root.dataset.theme === 'dark' || (root.dataset.theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
}
one('#theme').addEventListener('click', function () { root.dataset.theme = isDark() ? 'light' : 'dark'; redraw(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { redraw(); });

var tabs = all('[role=tab]');
function openTab(tab, focus) {
  tabs.forEach(function (each) {
    var on = each === tab;
    each.setAttribute('aria-selected', String(on));
    each.tabIndex = on ? 0 : -1;
    one('#' + each.getAttribute('aria-controls')).classList.toggle('on', on);
  });
  if (focus) { tab.focus(); }
  redraw();
}
tabs.forEach(function (tab, index) {
  tab.addEventListener('click', function () {
    openTab(tab);
    history.replaceState(null, '', '#' + tab.id.slice(2));
  });
  tab.addEventListener('keydown', function (event) {
    var to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) { return; }
    event.preventDefault();
    openTab(tabs[(to + tabs.length) % tabs.length], true);
  });
});

function cellValue(row, head) {
  var cell = row.cells[head.cellIndex];
  if (!head.classList.contains('num')) { return cell.textContent; }
  var value = parseFloat(cell.dataset.v || cell.textContent.replace(/,/g, ''));
  return isNaN(value) ? null : value;
}
function compare(a, b, up) {
  // What is missing comes last whichever way the column is sorted.
  if (a === null || b === null) { return (a === null) - (b === null); }
  var order = a < b ? -1 : a > b ? 1 : 0;
  return up ? order : -order;
}
function fold(table) {
  var query = table.dataset.query || '';
  var kept = 0;
  Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
    var matches = !query || row.textContent.toLowerCase().indexOf(query) >= 0;
    if (matches) { kept += 1; }
    row.classList.toggle('beyond', !matches || (!query && !table.dataset.all && kept > 12));
  });
}
all('.sort').forEach(function (button) {
  button.addEventListener('click', function () {
    var head = button.closest('th'), table = button.closest('table'), body = table.tBodies[0];
    var up = head.getAttribute('aria-sort') === 'descending';
    all('th', table).forEach(function (each) { each.setAttribute('aria-sort', 'none'); });
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    var rows = Array.prototype.slice.call(body.rows).map(function (row) { return [cellValue(row, head), row]; });
    rows.sort(function (a, b) { return compare(a[0], b[0], up); });
    rows.forEach(function (pair) { body.appendChild(pair[1]); });
    fold(table);
  });
});
// The same short place has the same full one throughout a table, or each cell has its own.
all('.grid').forEach(function (table) {
  var full = {};
  all('td code', table).forEach(function (code) {
    var cell = code.parentNode;
    if (cell.title) { full[code.textContent] = cell.title; } else { cell.title = full[code.textContent] || ''; }
  });
});
all('[data-more]').forEach(function (button) {
  button.addEventListener('click', function () {
    var table = one('[data-table="' + button.dataset.more + '"]');
    table.dataset.all = '1';
    fold(table);
    button.hidden = true;
  });
});
all('[data-filter]').forEach(function (input) {
  input.addEventListener('input', function () {
    all('.grid', input.closest('section')).forEach(function (table) {
      table.dataset.query = input.value.toLowerCase();
      fold(table);
    });
  });
});

all('[data-copy]').forEach(function (button) {
  button.addEventListener('click', function () {
    var done = function () { button.textContent = '✔'; };
    var text = button.dataset.copy || one('pre', button.parentNode).textContent;
    if (navigator.clipboard) { navigator.clipboard.writeText(text).then(done, function () { selectNear(button); }); }
    else { selectNear(button); }
  });
});
function selectNear(button) {
  var range = document.createRange();
  range.selectNodeContents(one('pre', button.parentNode));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

function openTarget() {
  var name = decodeURIComponent(location.hash.slice(1)), tab = document.getElementById('t-' + name);
  var target = name ? document.getElementById(name) : null;
  if (tab) { openTab(tab); one('#views').scrollIntoView(); }
  if (target && target.tagName === 'DETAILS') {
    for (var node = target; node; node = node.parentElement) { if (node.tagName === 'DETAILS') { node.open = true; } }
    target.scrollIntoView();
  }
}
addEventListener('hashchange', openTarget);
document.addEventListener('DOMContentLoaded', openTarget);

var beforePrint = null;
addEventListener('beforeprint', function () {
  beforePrint = { theme: root.dataset.theme, closed: all('.card:not([open])') };
  root.dataset.theme = 'light';
  beforePrint.closed.forEach(function (card) { card.open = true; });
  redraw(true);
});
addEventListener('afterprint', function () {
  if (!beforePrint) { return; }
  root.dataset.theme = beforePrint.theme;
  beforePrint.closed.forEach(function (card) { card.open = false; });
  redraw();
});
