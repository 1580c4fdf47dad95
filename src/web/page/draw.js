// What the page is made of: elements, tables and words. All text goes in by `textContent`: names of
// hosts come from whoever registers.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const ETA_MAX = 1.1;       // As in `pslite status`.
const at = id => document.getElementById(id);

// ---- elements -------------------------------------------------------------------------------

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function name(element, classes) {
  if (element.getAttribute('class') !== classes) element.setAttribute('class', classes);
}

function make(parent, tag, classes, text) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// Makes `parent` have that many children, with `fresh` for new ones; returns them.
function children(parent, count, fresh) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) fresh(parent);
  return parent.children;
}

function lines(list, texts, classes) {
  const items = children(list, texts.length, parent => make(parent, 'li'));
  texts.forEach((text, i) => { say(items[i], text); name(items[i], classes || ''); });
}

// A table of `items`. A column: {head, of: item -> text, kind, more: (span, item) -> ()}.
function table(element, columns, items, empty) {
  if (!element.tHead) {
    element.createTHead().insertRow();
    element.createTBody();
  }
  element.hidden = items.length === 0 && !empty;
  const heads = children(element.tHead.rows[0], columns.length, row => make(row, 'th'));
  columns.forEach((column, i) => {
    say(heads[i], items.length ? column.head : '');
    name(heads[i], column.kind || '');
    heads[i].scope = 'col';
  });
  const body = element.tBodies[0];
  if (items.length === 0) {
    const cell = children(children(body, 1, () => body.insertRow())[0], 1, row => make(row, 'td'));
    say(children(cell[0], 1, td => make(td, 'span'))[0], empty || '');
    cell[0].dataset.name = '';
    cell[0].colSpan = columns.length;
    name(cell[0], 'empty');
    return;
  }
  const rows = children(body, items.length, () => body.insertRow());
  items.forEach((item, r) => {
    const cells = children(rows[r], columns.length, row => make(row, 'td'));
    columns.forEach((column, c) => {
      const cell = cells[c];
      const text = column.of(item);
      cell.colSpan = 1;
      cell.dataset.name = column.head;
      name(cell, column.kind || '');
      if (text === '') {
        cell.replaceChildren();
        return;
      }
      const span = children(cell, 1, td => make(td, 'span'))[0];
      if (column.more) column.more(span, item, text);
      else say(span, text);
    });
  });
}

// ---- words ----------------------------------------------------------------------------------

const pad = number => String(number).padStart(2, '0');

function clock(millis) {
  const time = new Date(millis);
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
}

function lasted(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

const isNumber = value => typeof value === 'number' && Number.isFinite(value);
const seconds = value => (isNumber(value) ? `${value.toFixed(3)} s` : '–');
const percent = value => `${(100 * value).toFixed(1)} %`;
const part = value => (isNumber(value) ? `${(100 * value).toFixed(0)} %` : '');
const list = value => (Array.isArray(value) ? value : []);

function bytes(value) {
  if (!isNumber(value)) return '';
  if (value < 1e4) return `${value} B`;
  if (value < 1e7) return `${(value / 1e3).toFixed(1)} KB`;
  return value < 1e10 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}

function eta(value) {
  if (!isNumber(value)) return '–';
  return value <= ETA_MAX ? value.toFixed(2) : '– (T* is too long here)';
}

const TONES = {
  live: 'good', back: 'good', fixed: 'good', running: 'good',
  registered: 'plain', released: 'plain',
  forming: 'warn', changing: 'warn', joining: 'warn', draining: 'warn',
  dead: 'bad', failed: 'bad', lost: 'bad', cut: 'bad',
};

function word(element, text) {
  say(element, text);
  name(element, `word ${TONES[text] || 'plain'}`);
}
